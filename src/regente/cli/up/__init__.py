"""`regente up`: everything for one machine, as processes of their own under one that watches over
them."""
