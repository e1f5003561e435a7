DROP FUNCTION regente.healthy_tasks(bigint);
