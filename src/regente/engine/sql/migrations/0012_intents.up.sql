-- What a step with `on_unknown="hold"` was about to call: committed before the call. An intent
-- without a recorded step has an unknown outcome once its attempt is over; a person decides.
CREATE TABLE regente.intents (
  task_id   bigint NOT NULL,
  item      integer NOT NULL DEFAULT -1,
  attempt   integer NOT NULL,
  called_at timestamptz NOT NULL DEFAULT regente.clock(),
  asked_at  timestamptz,  -- since when a person is asked
  name      text NOT NULL,
  call      text,
  decision  text CHECK (decision IN ('retry', 'result')),
  result    json,
  PRIMARY KEY (task_id, name, item)
);
CREATE INDEX intents_to_decide ON regente.intents (asked_at, task_id)
    WHERE asked_at IS NOT NULL AND decision IS NULL;
