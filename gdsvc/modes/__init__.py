"""What each --pool-discovery consists of: the parts that the composition root puts together."""
