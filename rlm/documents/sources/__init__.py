"""Sources that are no files of this machine: web pages, objects of a cloud, revisions of a repository."""
