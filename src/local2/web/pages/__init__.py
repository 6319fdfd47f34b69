"""The page for people: the memory in a browser, beside HTTP in the same process.

A page is a module with a function `async def show(viewer)`, which adds its content, and a line in
the table of `site.py`. It asks the stack through the `Viewer`, makes its content with `frame.py`,
and raises errors, which the frame shows.
"""
