"""Documents (the original specification 004): executions over files, each read and put into one of
its project's classes."""
