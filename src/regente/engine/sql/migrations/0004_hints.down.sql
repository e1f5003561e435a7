DROP PROCEDURE regente.store_task;
