"""Files that hold other files: archives and packed files. Their readers yield members."""
