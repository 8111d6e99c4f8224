"""What servers do each in their own way: thinking in tags and fields, and the fields that they refuse."""
