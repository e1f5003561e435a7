-- Tasks that SQL enqueues, and keys that become free again.
--
-- What SQL has to know of a pipeline to check a task: the JSON schema of its arguments, if it has a
-- type, and whether its code tells each task's lane. Runners write both at their start.
ALTER TABLE regente.pipelines ADD COLUMN args_schema jsonb,
  ADD COLUMN tells_lanes boolean NOT NULL DEFAULT false;

CREATE FUNCTION regente.is_of_type(value jsonb, wanted text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
  WHEN wanted <> 'integer' OR jsonb_typeof(value) <> 'number' THEN jsonb_typeof(value) = wanted
  ELSE (value #>> '{}')::numeric % 1 = 0
END;

-- What a scalar, or the size of a list, violates of a schema's limits; NULL: nothing.
CREATE FUNCTION regente.limit_problem(schema jsonb, value jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE jsonb_typeof(value)
  WHEN 'number' THEN (
    SELECT CASE
      WHEN n.number < (schema ->> 'minimum')::numeric THEN 'less than ' || (schema ->> 'minimum')
      WHEN n.number > (schema ->> 'maximum')::numeric THEN 'more than ' || (schema ->> 'maximum')
      WHEN n.number <= (schema ->> 'exclusiveMinimum')::numeric
        THEN 'not more than ' || (schema ->> 'exclusiveMinimum')
      WHEN n.number >= (schema ->> 'exclusiveMaximum')::numeric
        THEN 'not less than ' || (schema ->> 'exclusiveMaximum')
    END
    FROM (SELECT (value #>> '{}')::numeric) AS n (number))
  WHEN 'string' THEN CASE
    WHEN length(value #>> '{}') < (schema ->> 'minLength')::numeric
      THEN 'shorter than ' || (schema ->> 'minLength')
    WHEN length(value #>> '{}') > (schema ->> 'maxLength')::numeric
      THEN 'longer than ' || (schema ->> 'maxLength')
  END
  WHEN 'array' THEN CASE
    WHEN jsonb_array_length(value) < (schema ->> 'minItems')::numeric
      THEN 'a list of less than ' || (schema ->> 'minItems')
    WHEN jsonb_array_length(value) > (schema ->> 'maxItems')::numeric
      THEN 'a list of more than ' || (schema ->> 'maxItems')
  END
END;

-- The first place where a value is not what the schema tells, with the reason; NULL: none. Of JSON
-- Schema the words that limit types, properties, numbers and lengths, enumerations and choices.
-- Others (`format`, `pattern`) are left to the pipeline's own type, which checks the arguments of
-- every attempt. `root` is the schema that references begin in.
CREATE FUNCTION regente.schema_problem(root jsonb, schema jsonb, value jsonb, place text)
RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  here    text := coalesce(nullif(place, ''), 'args');
  problem text;
BEGIN
  IF jsonb_typeof(schema) <> 'object' THEN
    RETURN CASE WHEN schema = 'false' THEN here || ': not known' END;
  END IF;
  IF schema ? '$ref' THEN
    problem := regente.schema_problem(
      root, root #> string_to_array(substr(schema ->> '$ref', 3), '/'), value, place);
  END IF;
  IF problem IS NULL AND schema ? 'type' AND NOT EXISTS (
    SELECT FROM jsonb_path_query(schema, '$.type[*]') AS t (wanted)
    WHERE regente.is_of_type(value, t.wanted #>> '{}')) THEN
    RETURN here || ': a value of the type ' || (schema ->> 'type') || ' is expected, not '
           || jsonb_typeof(value);
  ELSIF (schema ? 'const' AND value <> schema -> 'const')
     OR (schema ? 'enum' AND NOT schema -> 'enum' @> jsonb_build_array(value)) THEN
    RETURN here || ': not one of the values that are allowed';
  END IF;
  RETURN coalesce(problem, here || ': ' || regente.limit_problem(schema, value),
                  regente.choice_problem(root, schema, value, place),
                  CASE jsonb_typeof(value)
                    WHEN 'object' THEN regente.property_problem(root, schema, value, place)
                    WHEN 'array' THEN regente.item_problem(root, schema, value, place) END);
END $$;

-- Of `allOf`, `anyOf` and `oneOf`. With a discriminator the problem is that of the chosen one.
CREATE FUNCTION regente.choice_problem(root jsonb, schema jsonb, value jsonb, place text)
RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  choices jsonb := coalesce(schema -> 'anyOf', schema -> 'oneOf');
  problems text[];
BEGIN
  IF schema ? 'allOf' THEN
    SELECT array_agg(p.problem) INTO problems
    FROM jsonb_array_elements(schema -> 'allOf') AS one (schema),
         regente.schema_problem(root, one.schema, value, place) AS p (problem)
    WHERE p.problem IS NOT NULL;
    IF problems IS NOT NULL THEN
      RETURN problems[1];
    END IF;
  END IF;
  IF choices IS NULL THEN
    RETURN NULL;
  END IF;
  SELECT array_agg(p.problem) INTO problems
  FROM jsonb_array_elements(choices) AS one (schema),
       regente.schema_problem(root, one.schema, value, place) AS p (problem);
  RETURN CASE WHEN array_position(problems, NULL) IS NULL THEN array_to_string(problems, ', or ')
         END;
END $$;

CREATE FUNCTION regente.property_problem(root jsonb, schema jsonb, value jsonb, place text)
RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  within text := CASE WHEN place = '' THEN '' ELSE place || '.' END;
BEGIN
  RETURN coalesce(
    (SELECT within || (missing.name #>> '{}') || ': missing'
     FROM jsonb_path_query(schema, '$.required[*]') AS missing (name)
     WHERE NOT value ? (missing.name #>> '{}') LIMIT 1),
    (SELECT p.problem
     FROM jsonb_each(value) AS given (name, value),
          regente.schema_problem(
            root, coalesce(schema -> 'properties' -> given.name,
                           CASE WHEN NOT schema ? 'patternProperties'
                                THEN schema -> 'additionalProperties' END, 'true'),
            given.value, within || given.name) AS p (problem)
     WHERE p.problem IS NOT NULL LIMIT 1));
END $$;

CREATE FUNCTION regente.item_problem(root jsonb, schema jsonb, value jsonb, place text)
RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  within text := CASE WHEN place = '' THEN '' ELSE place || '.' END;
BEGIN
  RETURN (
    SELECT p.problem
    FROM jsonb_array_elements(value) WITH ORDINALITY AS given (value, number),
         regente.schema_problem(
           root, coalesce(schema -> 'prefixItems' -> (given.number::integer - 1),
                          schema -> 'items', 'true'),
           given.value, within || (given.number - 1)) AS p (problem)
    WHERE p.problem IS NOT NULL LIMIT 1);
END $$;

CREATE TYPE regente.new_task AS (
  pipeline text, args jsonb, key text, priority integer, run_at timestamptz, max_attempts integer,
  batch_id bigint, draft boolean, lane text
);

-- Refuse what the Python client refuses (codec.py, enqueue.py, lanes.py), before anything is
-- stored.
CREATE FUNCTION regente.check_new_task(task regente.new_task) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  known   regente.pipelines;
  problem text;
BEGIN
  SELECT p.* INTO known FROM regente.pipelines p WHERE p.name = task.pipeline;
  problem := CASE
    WHEN known.name IS NULL THEN format(
      'no pipeline is called %L; one is known once a runner has served it', task.pipeline)
    WHEN jsonb_typeof(task.args) IS DISTINCT FROM 'object' THEN 'args must be a JSON object'
    WHEN octet_length(task.args::text) > 1048576 THEN 'args take more than 1,048,576 bytes'
    WHEN jsonb_path_exists(task.args, '$.**{200}') THEN 'args are nested more than 200 levels deep'
    WHEN length(task.key) NOT BETWEEN 1 AND 500 THEN 'a key has 1 to 500 characters'
    WHEN (task.priority BETWEEN -32768 AND 32767) IS NOT TRUE
      THEN 'priority is a whole number from -32768 to 32767'
    WHEN task.max_attempts NOT BETWEEN 1 AND 1000 THEN 'max_attempts is 1 to 1000'
    WHEN task.run_at NOT BETWEEN '0001-01-02 00:00:00+00' AND '9999-12-30 00:00:00+00'
      THEN 'run_at is a time of the years 1 to 9999'
    WHEN length(task.lane) > 200 THEN 'a lane''s name has 1 to 200 characters'
    WHEN task.lane IS NULL AND known.tells_lanes THEN format(
      'the code of %s tells the lane of each task: give lane =>, '
      'or an empty text for a task without one', task.pipeline)
  END;
  problem := coalesce(problem, task.pipeline || '''s arguments are not valid: '
    || regente.schema_problem(known.args_schema, known.args_schema, task.args, ''));
  IF problem IS NOT NULL THEN
    RAISE EXCEPTION '%', problem USING ERRCODE = 'RG002';
  END IF;
END $$;

CREATE FUNCTION regente.check_uniqueness(key text, "unique" text, on_conflict text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF on_conflict IS NULL OR on_conflict NOT IN ('return', 'replace', 'error') THEN
    RAISE EXCEPTION 'on_conflict is return, replace or error' USING ERRCODE = 'RG002';
  ELSIF key IS NULL AND ("unique" <> 'ever' OR on_conflict <> 'return') THEN
    RAISE EXCEPTION 'unique and on_conflict need a key' USING ERRCODE = 'RG002';
  ELSIF "unique" IN ('ever', 'until_done', 'until_started') THEN
    RETURN;
  END IF;
  BEGIN
    IF "unique"::interval > interval '0' THEN
      RETURN;
    END IF;
  EXCEPTION WHEN data_exception THEN
    NULL;
  END;
  RAISE EXCEPTION 'unique is ever, until_done, until_started, or a time such as 24 hours'
  USING ERRCODE = 'RG002';
END $$;

-- Whether a task's key may be given to another one.
CREATE FUNCTION regente.key_is_free(task regente.tasks, "unique" text) RETURNS boolean
LANGUAGE sql STABLE AS $$
SELECT CASE "unique"
  WHEN 'ever' THEN false
  WHEN 'until_done' THEN task.status >= 'completed'
  WHEN 'until_started' THEN task.attempt > 0 OR task.status >= 'completed'
  ELSE task.created_at <= regente.clock() - "unique"::interval
END $$;

-- Store a task with its event, and count it in its batch, which the caller has locked. NULL: a task
-- with its key is there.
CREATE FUNCTION regente.insert_new_task(task regente.new_task) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  new_id bigint;
BEGIN
  INSERT INTO regente.tasks AS t (pipeline, args, key, priority, run_at, lane_run_at, lane,
                                  max_attempts, batch_id, status, queued_at)
  SELECT task.pipeline, task.args, task.key, task.priority,
         CASE WHEN task.lane IS NULL THEN w.due_at ELSE regente.in_lane() END,
         CASE WHEN task.lane IS NOT NULL THEN w.due_at END, task.lane,
         task.max_attempts, task.batch_id,
         CASE WHEN task.draft THEN 'draft' ELSE 'queued' END::regente.task_status,
         CASE WHEN task.draft THEN NULL ELSE regente.clock() END
  FROM (SELECT coalesce(task.run_at, regente.clock())) AS w (due_at)
  ON CONFLICT (pipeline, key) WHERE key IS NOT NULL DO NOTHING
  RETURNING t.id INTO new_id;
  IF new_id IS NULL THEN
    RETURN NULL;
  END IF;
  INSERT INTO regente.events (task_id, batch_id, event)
  VALUES (new_id, task.batch_id, CASE WHEN task.draft THEN 'task_drafted' ELSE 'task_queued' END);
  INSERT INTO regente.events (batch_id, event)
  SELECT b.id, 'batch_reopened' FROM regente.batches b
  WHERE b.id = task.batch_id AND b.status >= 'completed';
  UPDATE regente.batches b
  SET total = b.total + 1, progress_at = regente.clock(), finished_at = NULL,
      status = CASE WHEN b.status >= 'completed' THEN 'running' ELSE b.status END
  WHERE b.id = task.batch_id;
  RETURN new_id;
END $$;

-- What differs between two versions of a task, for its event.
CREATE FUNCTION regente.differences(before regente.tasks, after regente.tasks) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_object_agg(d.name, jsonb_build_object('from', d.was, 'to', d.becomes)),
                  '{}')
         || CASE WHEN after.args = before.args THEN '{}' ELSE jsonb_build_object('args', (
              SELECT jsonb_agg(DISTINCT f.name)
              FROM (SELECT jsonb_object_keys(before.args || after.args)) AS f (name)
              WHERE before.args -> f.name IS DISTINCT FROM after.args -> f.name)) END
  FROM (VALUES ('priority', to_jsonb(before.priority), to_jsonb(after.priority)),
               ('max_attempts', to_jsonb(before.max_attempts), to_jsonb(after.max_attempts)),
               ('lane', to_jsonb(before.lane), to_jsonb(after.lane)),
               ('run_at', to_jsonb(coalesce(before.lane_run_at, before.run_at)),
                to_jsonb(coalesce(after.lane_run_at, after.run_at)))) AS d (name, was, becomes)
  WHERE d.was IS DISTINCT FROM d.becomes
$$;

-- Change a waiting task: `priority`, `run_at`, `lane`, `max_attempts`, and `args` before its first
-- attempt. False: it has started or ended meanwhile, or is held and would get another time. The
-- event names what changed, of arguments the fields only, which may be secret.
CREATE FUNCTION regente.change_task(task_id bigint, changes jsonb, details jsonb DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  before regente.tasks;
  after regente.tasks;
  due timestamptz;
BEGIN
  SELECT t.* INTO before FROM regente.tasks t
  WHERE t.id = change_task.task_id AND t.status IN ('draft', 'queued')
    AND (t.attempt = 0 OR NOT changes ? 'args')
    AND NOT (changes ? 'run_at' AND regente.is_held(coalesce(t.lane_run_at, t.run_at)))
  FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  after := before;
  IF changes ? 'lane' THEN
    after.lane := changes ->> 'lane';
  END IF;
  IF changes ? 'max_attempts' THEN
    after.max_attempts := changes ->> 'max_attempts';
  END IF;
  after.priority := coalesce(changes ->> 'priority', before.priority::text);
  after.args := coalesce(changes -> 'args', before.args);
  due := CASE WHEN changes ? 'run_at'
              THEN coalesce((changes ->> 'run_at')::timestamptz, regente.clock())
              ELSE coalesce(before.lane_run_at, before.run_at) END;
  UPDATE regente.tasks t
  SET priority = after.priority, args = after.args, max_attempts = after.max_attempts,
      lane = after.lane,
      run_at = CASE WHEN after.lane IS NULL THEN due ELSE regente.in_lane() END,
      lane_run_at = CASE WHEN after.lane IS NOT NULL THEN due END
  WHERE t.id = before.id
  RETURNING t.* INTO after;
  INSERT INTO regente.events (task_id, batch_id, event, details)
  SELECT before.id, before.batch_id, 'task_changed',
         jsonb_build_object('changes', c.changes) || coalesce(change_task.details, '{}')
  FROM regente.differences(before, after) AS c (changes) WHERE c.changes <> '{}';
  RETURN true;
END $$;

-- Store a task, unless its key belongs to another one: `"unique"` says how long, `on_conflict` what
-- happens then. What another session does meanwhile is looked at again, each time with a new
-- snapshot.
CREATE FUNCTION regente.store_unique(task regente.new_task, "unique" text, on_conflict text)
RETURNS TABLE (id bigint, created boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  owner regente.tasks;
BEGIN
  PERFORM FROM regente.batches b WHERE b.id = task.batch_id FOR UPDATE;
  IF NOT FOUND AND task.batch_id IS NOT NULL THEN
    RAISE EXCEPTION 'there is no batch %', task.batch_id USING ERRCODE = 'RG003';
  END IF;
  FOR look IN 1..1000 LOOP
    store_unique.id := regente.insert_new_task(task);
    store_unique.created := store_unique.id IS NOT NULL;
    EXIT WHEN store_unique.created;
    SELECT t.* INTO owner FROM regente.tasks t
    WHERE t.pipeline = task.pipeline AND t.key = task.key;
    CONTINUE WHEN NOT FOUND;
    IF regente.key_is_free(owner, "unique") THEN
      PERFORM regente.free_key(owner.id, task.key, "unique");
      CONTINUE;
    ELSIF on_conflict = 'error' THEN
      RAISE EXCEPTION 'task % of % has the key %', owner.id, task.pipeline, task.key
      USING ERRCODE = 'RG004', DETAIL = owner.id;
    ELSIF on_conflict = 'replace' AND owner.status < 'running' AND owner.attempt = 0 THEN
      CONTINUE WHEN NOT regente.replace_task(owner, task);
    END IF;
    store_unique.id := owner.id;
    EXIT;
  END LOOP;
  IF store_unique.id IS NULL THEN
    RAISE EXCEPTION 'the key % changed its task again and again', task.key
    USING ERRCODE = 'serialization_failure';
  END IF;
  RETURN NEXT;
END $$;

-- Take the key of a task whose time with it is over. Another session may have been first, or an
-- operator may have queued it again: then nothing happens.
CREATE FUNCTION regente.free_key(task_id bigint, held_key text, "unique" text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  WITH freed AS (
    UPDATE regente.tasks t SET key = NULL
    WHERE t.id = free_key.task_id AND t.key = held_key AND regente.key_is_free(t, "unique")
    RETURNING t.id, t.batch_id
  )
  INSERT INTO regente.events (task_id, batch_id, event, details)
  SELECT f.id, f.batch_id, 'task_key_freed', jsonb_build_object('key', held_key) FROM freed f;
END $$;

-- A task that has not started takes the arguments and options of another one. One that is held
-- stays so.
CREATE FUNCTION regente.replace_task(owner regente.tasks, task regente.new_task) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  changes jsonb := jsonb_build_object('args', task.args, 'priority', task.priority, 'lane',
                                      task.lane, 'max_attempts', task.max_attempts);
BEGIN
  IF NOT regente.is_held(coalesce(owner.lane_run_at, owner.run_at)) THEN
    changes := changes || jsonb_build_object('run_at', coalesce(task.run_at, regente.clock()));
  END IF;
  RETURN regente.change_task(owner.id, changes);
END $$;

-- The id of the batch with this name, which is opened if there is none.
CREATE FUNCTION regente.batch_called(batch text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  found_id bigint;
BEGIN
  IF length(batch) NOT BETWEEN 1 AND 200 THEN
    RAISE EXCEPTION 'a batch''s name has 1 to 200 characters' USING ERRCODE = 'RG002';
  END IF;
  SELECT b.id INTO found_id FROM regente.batches b WHERE b.name = batch;
  IF found_id IS NULL AND batch IS NOT NULL THEN
    INSERT INTO regente.batches AS b (name) VALUES (batch)
    ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING b.id INTO found_id;
  END IF;
  RETURN found_id;
END $$;

-- Tell runners of a task when the transaction commits. Lanes are then looked at by a runner, so
-- that this transaction locks none.
CREATE FUNCTION regente.send_hint(task regente.new_task) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  due timestamptz := coalesce(task.run_at, regente.clock());
BEGIN
  IF task.lane IS NOT NULL THEN
    PERFORM pg_notify('regente_laned', task.pipeline || ' ' || task.lane);
  ELSE
    PERFORM pg_notify('regente_queued', concat_ws(
      ' ', task.pipeline, task.priority, greatest(0, extract(epoch FROM due - regente.clock())),
      extract(epoch FROM due)));
  END IF;
END $$;

-- Store a task in the caller's transaction; its id, and whether it is new. The parameters are those
-- of the Python client. `lane` is needed for a pipeline whose code tells lanes; an empty text is
-- none. Without `hint` runners find the task by themselves, within seconds: for loads of many
-- tasks, and for transactions that are prepared.
CREATE FUNCTION regente.enqueued(
  pipeline text, args jsonb DEFAULT '{}', key text DEFAULT NULL, priority integer DEFAULT 0,
  run_at timestamptz DEFAULT NULL, batch text DEFAULT NULL, max_attempts integer DEFAULT NULL,
  draft boolean DEFAULT false, lane text DEFAULT NULL, "unique" text DEFAULT 'ever',
  on_conflict text DEFAULT 'return', hint boolean DEFAULT true
) RETURNS TABLE (id bigint, created boolean) LANGUAGE plpgsql AS $$
DECLARE
  task regente.new_task := (pipeline, coalesce(args, '{}'), key, coalesce(priority, 0), run_at,
                            max_attempts, NULL, coalesce(draft, false), lane);
BEGIN
  PERFORM regente.check_uniqueness(key, "unique", on_conflict), regente.check_new_task(task);
  task.lane := nullif(lane, '');
  task.batch_id := regente.batch_called(batch);
  SELECT s.id, s.created INTO enqueued.id, enqueued.created
  FROM regente.store_unique(task, "unique", on_conflict) AS s;
  IF hint AND NOT task.draft AND (enqueued.created OR on_conflict = 'replace') THEN
    PERFORM regente.send_hint(task);
  END IF;
  RETURN NEXT;
END $$;

-- As `enqueued`; the task's id alone.
CREATE FUNCTION regente.enqueue(
  pipeline text, args jsonb DEFAULT '{}', key text DEFAULT NULL, priority integer DEFAULT 0,
  run_at timestamptz DEFAULT NULL, batch text DEFAULT NULL, max_attempts integer DEFAULT NULL,
  draft boolean DEFAULT false, lane text DEFAULT NULL, "unique" text DEFAULT 'ever',
  on_conflict text DEFAULT 'return', hint boolean DEFAULT true
) RETURNS bigint LANGUAGE sql AS $$
  SELECT e.id FROM regente.enqueued(
    enqueue.pipeline, enqueue.args, enqueue.key, enqueue.priority, enqueue.run_at, enqueue.batch,
    enqueue.max_attempts, enqueue.draft, enqueue.lane, enqueue."unique", enqueue.on_conflict,
    enqueue.hint) AS e
$$;
