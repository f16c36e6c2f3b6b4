"""The Global Frontend: which pool a request goes to, and the request's way there and back."""
