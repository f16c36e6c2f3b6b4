"""What every HTTP face of gdsvc shares: the server, bodies, paths, negotiation, whole responses. Knows no pools."""
