"""What every port promises, tested once against every adapter set."""
