"""Knows Kubernetes, nothing of pools: lists and watches one kind of object and says how far the view can be trusted."""
