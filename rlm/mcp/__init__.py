"""An MCP server over the runtime: tools that ask, search and read, resources for citations."""
