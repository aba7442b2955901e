"""What tests of Perdure, ours and our users, are built with."""
