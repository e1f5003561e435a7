CREATE OR REPLACE FUNCTION regente.checked_url(url text) RETURNS text LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
  part text[] := regexp_match(
    url, '^https?://(\[[0-9A-Fa-f:.]+\]|[^][\s/?#@:]+)(?::([0-9]{1,5}))?(?:/[^\s?#]*)?$');
  refused boolean := url IS NOT NULL AND part IS NULL OR length(url) > 500 OR url ~ '[[:cntrl:]]'
                     OR part[2]::integer NOT BETWEEN 1 AND 65535;
BEGIN
  BEGIN
    refused := refused OR btrim(part[1], '[]')::inet <<= ANY (
      '{169.254.0.0/16,224.0.0.0/4,0.0.0.0/32,fe80::/10,ff00::/8,::/128,::ffff:169.254.0.0/112,
        ::ffff:224.0.0.0/100,::ffff:0.0.0.0/128}'::inet[]);
  EXCEPTION WHEN invalid_text_representation THEN
    NULL;  -- a name
  END;
  IF refused THEN
    RAISE check_violation
    USING MESSAGE = format('%L is not an address like https://worker.example.com', left(url, 200));
  END IF;
  RETURN rtrim(url, '/');
END $$;

CREATE OR REPLACE FUNCTION regente.check_worker() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.removed_at IS NOT NULL THEN
    NEW.api_key := '';
    RETURN NEW;
  END IF;
  NEW.name := regente.checked_name(NEW.name);
  NEW.url := regente.checked_url(NEW.url);
  NEW.storage_domain := rtrim(NEW.storage_domain, '/');
  PERFORM regente.checked_url(CASE WHEN NEW.storage_domain ~ '://' THEN NEW.storage_domain
                                   ELSE 'https://' || NEW.storage_domain END);
  IF TG_OP = 'INSERT' THEN
    NEW.api_key := regente.checked_secret(NEW.api_key);
    IF NEW.status <> 'idle' OR NEW.current_mission_id IS NOT NULL THEN
      RAISE EXCEPTION 'a new worker is idle' USING ERRCODE = 'RG001',
        HINT = 'Its driver opens sessions and gives it missions.';
    END IF;
  ELSE
    PERFORM regente.check_address_change(OLD.url, NEW.url, OLD.api_key, NEW.api_key, 'api_key');
    IF NEW.api_key <> OLD.api_key THEN
      NEW.api_key := regente.checked_secret(NEW.api_key);
    END IF;
    IF NEW.active AND NOT OLD.active THEN
      NEW.failures := 0;
      NEW.error_code := NULL;
      NEW.error_message := NULL;
    END IF;
  END IF;
  IF NEW.storage_domain IS NULL THEN
    RAISE WARNING 'without a storage_domain the worker % gets no missions', NEW.name;
  END IF;
  NEW.updated_at := regente.clock();
  RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION regente.check_proxy() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.removed_at IS NOT NULL THEN
    NEW.password := NULL;
    RETURN NEW;
  END IF;
  NEW.name := regente.checked_name(coalesce(NEW.name, NEW.id));
  NEW.username := nullif(NEW.username, '');
  NEW.password := nullif(NEW.password, '');
  IF NEW.host !~ '^((https?|socks5h?)://)?(\[[0-9A-Fa-f:.%\w]+\]|[\w.\-]+)(:[0-9]{1,5})?$' THEN
    RAISE check_violation USING MESSAGE = format(
      '%L is not a host, for example proxy.example.com or socks5://10.0.0.7', NEW.host);
  ELSIF NEW.port IS NOT NULL AND NEW.host ~ ':[0-9]{1,5}$' THEN
    RAISE check_violation USING MESSAGE = 'the port is given twice: in the host and as port';
  ELSIF NEW.username ~ '[[:cntrl:]]' THEN
    RAISE check_violation USING MESSAGE = 'a username has 1 to 100 printable characters';
  END IF;
  IF TG_OP = 'INSERT' THEN
    NEW.password := regente.checked_secret(NEW.password);
  ELSE
    PERFORM regente.check_address_change(OLD.host, NEW.host, OLD.password, NEW.password,
                                         'password');
    IF NEW.password IS DISTINCT FROM OLD.password THEN
      NEW.password := regente.checked_secret(NEW.password);
    END IF;
    IF NEW.active AND NOT OLD.active THEN
      NEW.fail_count := 0;
    END IF;
  END IF;
  RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION regente.check_writer() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.removed_at IS NOT NULL THEN
    -- The row is locked by now: what a mission has committed meanwhile is seen.
    IF EXISTS (SELECT FROM regente.mission_runs r JOIN regente.tasks t ON t.id = r.mission_id
               WHERE r.writer_id = NEW.id AND r.checkpoint = 'armazenamento'
                 AND t.status IN ('queued', 'running')) THEN
      RETURN NULL;
    END IF;
    NEW.api_key := '';
    RETURN NEW;
  END IF;
  NEW.name := regente.checked_name(NEW.name);
  NEW.url := regente.checked_url(NEW.url);
  IF TG_OP = 'INSERT' THEN
    NEW.api_key := regente.checked_secret(NEW.api_key);
  ELSE
    PERFORM regente.check_address_change(OLD.url, NEW.url, OLD.api_key, NEW.api_key, 'api_key');
    IF NEW.api_key <> OLD.api_key THEN
      NEW.api_key := regente.checked_secret(NEW.api_key);
    END IF;
  END IF;
  NEW.updated_at := regente.clock();
  RETURN NEW;
END $$;

DROP FUNCTION regente.check_proxy_host(text);
DROP FUNCTION regente.check_host(text);
DROP FUNCTION regente.host_refusal(text);
DROP FUNCTION regente.address_of(text);
DROP FUNCTION regente.number_of(text);
DROP FUNCTION regente.is_never_called(inet);
DROP FUNCTION regente.ipv4_in(inet, integer);
