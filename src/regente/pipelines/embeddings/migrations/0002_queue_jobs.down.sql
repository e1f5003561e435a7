DROP VIEW regente.queue_jobs;
