"""What keeping registrations elsewhere costs: heartbeats, readings, calls and units, through each store."""
