"""The commands for people: what `gdsvc pools`, `routers`, `watch`, `register`, `deregister` and `why` do and print."""
