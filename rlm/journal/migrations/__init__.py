"""The steps by which a store came to its present tables. Applied when a store is opened."""
