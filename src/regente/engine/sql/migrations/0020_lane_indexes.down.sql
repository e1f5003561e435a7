DROP INDEX regente.tasks_in_lane;
DROP INDEX regente.tasks_running_in_lane;
