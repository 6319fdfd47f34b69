"""Opens, wires and closes everything that a stack consists of; begin with `app.py`."""
