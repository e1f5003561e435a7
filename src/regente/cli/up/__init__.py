"""`regente up`: the processes of one machine, under one supervisor."""
