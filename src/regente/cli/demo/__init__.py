"""`regente demo`: a thousand tasks, three runners, one of them killed, and an account of every task at the end."""
