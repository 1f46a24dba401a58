"""What trained networks have learned: pictures, and the numbers behind them. The figures need the extra `plots`."""
