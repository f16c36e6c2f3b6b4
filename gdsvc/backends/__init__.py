"""Where pools and routers come from; each module fulfils the contract in gdsvc.pool_discovery."""
