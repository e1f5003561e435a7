-- Schedules: paused, what happens while the previous run is unfinished, what missed times become,
-- and a record of every time that came.
ALTER TABLE regente.schedules
  ADD COLUMN overlap   text NOT NULL DEFAULT 'allow'
      CONSTRAINT overlap_is_known CHECK (overlap IN ('allow', 'skip', 'queue')),
  ADD COLUMN catch_up  text NOT NULL DEFAULT 'one'
      CONSTRAINT catch_up_is_known CHECK (catch_up IN ('none', 'one', 'all')),
  ADD COLUMN jitter    interval NOT NULL DEFAULT '0',
  ADD COLUMN due_as    text,  -- the argument of its tasks that gets the run's time
  -- A paused schedule is also not `enabled`, which older runners respect.
  ADD COLUMN paused_at timestamptz;

-- One row for each time of a schedule that was dealt with; `missed` has one for many times. The
-- primary key is what no time passes twice.
CREATE TABLE regente.schedule_runs (
  schedule text NOT NULL REFERENCES regente.schedules ON DELETE CASCADE,
  due_at   timestamptz NOT NULL,
  at       timestamptz NOT NULL DEFAULT regente.clock(),
  task_id  bigint,
  times    integer NOT NULL DEFAULT 1,
  state    text NOT NULL
      CONSTRAINT state_is_known CHECK (state IN ('queued', 'waiting', 'skipped', 'missed')),
  PRIMARY KEY (schedule, due_at)
);
CREATE INDEX schedule_runs_waiting ON regente.schedule_runs (schedule, due_at)
    WHERE state = 'waiting';

-- The key of a run's task: the same in every session, whatever its time zone.
CREATE FUNCTION regente.schedule_key(schedule text, due_at timestamptz) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT 'schedule:' || schedule || ':'
      || to_char(due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

-- Whether a run of the schedule is unfinished: the task of its last one, or one that waits.
CREATE FUNCTION regente.schedule_is_busy(schedule text, last_task bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM regente.tasks t WHERE t.id = last_task AND t.status < 'completed')
      OR EXISTS (SELECT FROM regente.schedule_runs r
                 WHERE r.schedule = schedule_is_busy.schedule AND r.state = 'waiting')
$$;
