"""The memory as a server of the Model Context Protocol (MCP), and an ordinary client of the bus.

`opening` answers the handshake before anything slow is imported, so this package imports nothing.
"""
