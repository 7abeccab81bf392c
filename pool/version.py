"""Which jobpool this is. To ask the installed package's metadata costs each process that does 2 MB and 30 ms."""

VERSION = "0.1.0"
