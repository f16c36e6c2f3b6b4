"""Registrations kept in Kubernetes Lease objects, one a member, so that any number of replicas share them."""
