"""What a request costs on its way through the Global Frontend: beside haproxy, nginx and the floor of our server."""
