"""What a code, a class or a sample is made of."""
