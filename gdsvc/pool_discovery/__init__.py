"""The contract of discovery: what directories show and registrars take, whatever stands behind them."""
