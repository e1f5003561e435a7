DROP VIEW regente.quote_requests;
DROP INDEX regente.ix_quote_requests_worker_id;
DROP INDEX regente.ix_quote_requests_heartbeat_status;
DROP FUNCTION regente.quote_processing_seconds(bigint);
DROP FUNCTION regente.quote_resume_data(bigint);
DROP FUNCTION regente.quote_status(regente.task_status, integer);
