"""Registrations in a DynamoDB table that any number of replicas share.

keys.py and codec.py decide what the table holds (this layout is ours, not that of another program), table.py is the
only module that knows the AWS client, patience.py repeats calls, batches.py puts renewals together, engine.py writes
and reader.py reads for the stores of gdsvc/backends/shared.
"""
