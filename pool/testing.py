"""For tests of programs that use jobpool."""
