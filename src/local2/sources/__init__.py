"""What people bring from elsewhere: exports of other programs and folders of documents.

`opening.py` says what a file or folder is, a module for each format reads it as the items of
`items.py`, and `importer.py` sends these to the stack and reports what became of them.
"""
