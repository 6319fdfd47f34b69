"""The memory as a server of the Model Context Protocol: a client of the bus like any other.

`opening` answers the handshake before anything slow is imported, so this package imports nothing.
"""
