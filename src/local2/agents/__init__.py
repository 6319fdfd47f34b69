"""What the stack does on the bus besides tools: it stores passing turns, and answers services."""
