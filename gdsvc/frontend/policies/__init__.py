"""How one of several pools is chosen. Each policy is a plugin of the entry points group `gdsvc.policies`."""
