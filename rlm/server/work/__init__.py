"""What the server does with a request: it waits for its turn, runs, is resumed, cancelled and paid for."""
