DROP FUNCTION regente.enqueue(text, jsonb, text, integer, timestamptz, text, integer, boolean, text,
                              text, text, boolean);
DROP FUNCTION regente.enqueued(text, jsonb, text, integer, timestamptz, text, integer, boolean,
                               text, text, text, boolean);
DROP FUNCTION regente.send_hint(regente.new_task);
DROP FUNCTION regente.batch_called(text);
DROP FUNCTION regente.store_unique(regente.new_task, text, text);
DROP FUNCTION regente.replace_task(regente.tasks, regente.new_task);
DROP FUNCTION regente.free_key(bigint, text, text);
DROP FUNCTION regente.change_task(bigint, jsonb, jsonb);
DROP FUNCTION regente.differences(regente.tasks, regente.tasks);
DROP FUNCTION regente.insert_new_task(regente.new_task);
DROP FUNCTION regente.key_is_free(regente.tasks, text);
DROP FUNCTION regente.check_uniqueness(text, text, text);
DROP FUNCTION regente.check_new_task(regente.new_task);
DROP TYPE regente.new_task;
DROP FUNCTION regente.item_problem(jsonb, jsonb, jsonb, text);
DROP FUNCTION regente.property_problem(jsonb, jsonb, jsonb, text);
DROP FUNCTION regente.choice_problem(jsonb, jsonb, jsonb, text);
DROP FUNCTION regente.schema_problem(jsonb, jsonb, jsonb, text);
DROP FUNCTION regente.limit_problem(jsonb, jsonb);
DROP FUNCTION regente.is_of_type(jsonb, text);
ALTER TABLE regente.pipelines DROP COLUMN args_schema, DROP COLUMN tells_lanes;
