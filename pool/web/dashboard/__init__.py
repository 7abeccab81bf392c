"""The dashboard: pages for people at `/` and `/ui/…`, rendered here, signed in to with an admin token.

Everything of it hooks into the API's application in `hook.py`; the pages share its store desk and its tokens.
"""
