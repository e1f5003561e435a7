-- What is refused says what to call instead, also for the states of workers.
CREATE OR REPLACE FUNCTION regente.refuse_worker_transition() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
  RAISE EXCEPTION 'worker % cannot go from % to %', OLD.name, OLD.status, NEW.status
  USING ERRCODE = 'RG001',
    HINT = 'Its driver opens sessions and gives it missions: `regente orchestrator start`. To take '
      'it out of use, UPDATE workers SET active = false.';
END $$;
