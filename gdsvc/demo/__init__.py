"""A fleet on one machine, to try: a discovery service, mock pools that heartbeat, the Global Frontend before them."""
