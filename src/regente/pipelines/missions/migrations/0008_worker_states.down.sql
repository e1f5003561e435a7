CREATE OR REPLACE FUNCTION regente.refuse_worker_transition() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
  RAISE EXCEPTION 'worker % cannot go from % to %', OLD.name, OLD.status,
  NEW.status USING ERRCODE = 'RG001';
END $$;
