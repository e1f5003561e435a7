-- The fleet in SQL: what the register checks, records and encrypts, for rows that are written by
-- hand.
--
-- Keys and passwords that are written in SQL are sealed before their row is stored: encrypted for
-- the fleet's secret key, of which the database knows only the public half. No table, WAL record or
-- backup has the plain text.
--
-- A sealed secret is `rgs.KEY.DATA`, DATA the base64url of an X25519 public key made for it, an
-- HMAC-SHA-256 tag and the ciphertext: HKDF-SHA-256 of the shared secret gives the tag's key and a
-- key stream as long as the text. `Secrets` in fleet/secrets.py opens it.

CREATE FUNCTION regente.hmac_sha256(key bytea, data bytea) RETURNS bytea LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
  padded bytea := CASE WHEN length(key) > 64 THEN sha256(key) ELSE key END;
  inner_key bytea;
  outer_key bytea;
BEGIN
  padded := padded || decode(repeat('00', 64 - length(padded)), 'hex');
  inner_key := padded;
  outer_key := padded;
  FOR i IN 0..63 LOOP
    inner_key := set_byte(inner_key, i, get_byte(padded, i) # 54);
    outer_key := set_byte(outer_key, i, get_byte(padded, i) # 92);
  END LOOP;
  RETURN sha256(outer_key || sha256(inner_key || data));
END $$;

-- RFC 7748: the Montgomery ladder over 2^255 - 19, on numbers of any size.
CREATE FUNCTION regente.x25519(scalar bytea, point bytea) RETURNS bytea LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
  p CONSTANT numeric := ('578960446186580977117854925043439539266349923328202820'
                         || '19728792003956564819949')::numeric;
  k bytea := set_byte(set_byte(scalar, 0, get_byte(scalar, 0) & 248), 31,
                      get_byte(scalar, 31) & 127 | 64);
  x1 numeric := 0;
  x2 numeric := 1;
  z2 numeric := 0;
  x3 numeric;
  z3 numeric := 1;
  a numeric;
  b numeric;
  aa numeric;
  bb numeric;
  e numeric;
  da numeric;
  cb numeric;
  result bytea := decode(repeat('00', 32), 'hex');
BEGIN
  FOR i IN REVERSE 31..0 LOOP
    x1 := x1 * 256 + CASE i WHEN 31 THEN get_byte(point, i) & 127 ELSE get_byte(point, i) END;
  END LOOP;
  x3 := x1;
  FOR t IN REVERSE 254..0 LOOP
    IF get_bit(k, t) = 1 THEN
      a := x2; x2 := x3; x3 := a; a := z2; z2 := z3; z3 := a;
    END IF;
    a := x2 + z2;
    b := x2 - z2;
    aa := a * a % p;
    bb := b * b % p;
    e := aa - bb;
    da := (x3 - z3) * a % p;
    cb := (x3 + z3) * b % p;
    x3 := (da + cb) * (da + cb) % p;
    z3 := x1 * ((da - cb) * (da - cb) % p) % p;
    x2 := aa * bb % p;
    z2 := e * (aa + 121665 * e) % p;
    IF get_bit(k, t) = 1 THEN
      a := x2; x2 := x3; x3 := a; a := z2; z2 := z3; z3 := a;
    END IF;
  END LOOP;
  -- x2 / z2: z2 to the power of p - 2, whose bits are all ones but those of 2 and 4.
  a := 1;
  FOR t IN REVERSE 254..0 LOOP
    a := a * a % p;
    IF t NOT IN (2, 4) THEN
      a := a * z2 % p;
    END IF;
  END LOOP;
  a := ((x2 * a % p) + p) % p;
  FOR i IN 0..31 LOOP
    result := set_byte(result, i, (a % 256)::integer);
    a := div(a, 256);
  END LOOP;
  RETURN result;
END $$;

CREATE FUNCTION regente.is_encrypted(secret text) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN
  secret ~ '^rg[2s]\.[0-9a-f]{8}\.[A-Za-z0-9_-]{38,}={0,2}$'
  OR secret ~ '^gAAAA[A-Za-z0-9_-]{91,}={0,2}$';  -- of earlier versions

CREATE FUNCTION regente.seal(secret text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  key jsonb := (SELECT value FROM regente.settings WHERE settings.key = 'sealing_key');
  recipient bytea;
  scalar bytea := sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
                         || uuid_send(gen_random_uuid()));
  own bytea;
  extracted bytea;
  block bytea := '';
  stream bytea := '';
  text bytea := convert_to(secret, 'UTF8');
BEGIN
  IF key IS NULL THEN
    RAISE object_not_in_prerequisite_state
    USING MESSAGE = 'the database does not know yet for which key to encrypt',
      HINT = 'Start `regente serve` or `regente run` with the fleet''s secret key once, or add the '
        'member with `regente fleet add`.';
  END IF;
  recipient := decode(key ->> 'public', 'hex');
  own := regente.x25519(scalar, ('\x09' || repeat('00', 31))::bytea);
  extracted := regente.hmac_sha256(own || recipient, regente.x25519(scalar, recipient));
  FOR i IN 1..(length(text) + 63) / 32 LOOP
    block := regente.hmac_sha256(
      extracted, block || convert_to('regente sealed secret', 'UTF8')
      || set_byte('\x00'::bytea, 0, i));
    stream := stream || block;
  END LOOP;
  FOR i IN 0..length(text) - 1 LOOP
    text := set_byte(text, i, get_byte(text, i) # get_byte(stream, 32 + i));
  END LOOP;
  RETURN 'rgs.' || (key ->> 'id') || '.' || translate(
    encode(own || regente.hmac_sha256(substring(stream FROM 1 FOR 32), text) || text, 'base64'),
    E'+/\n', '-_');
END $$;

-- The register's checks, as in fleet/registry.py, also for workers, proxies and writers that are
-- written in SQL.

CREATE FUNCTION regente.checked_name(name text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF btrim(name) = '' OR length(btrim(name)) > 100 OR name ~ '[[:cntrl:]]' THEN
    RAISE check_violation USING MESSAGE = 'a name has 1 to 100 printable characters';
  END IF;
  RETURN btrim(name);
END $$;

CREATE FUNCTION regente.checked_url(url text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
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

CREATE FUNCTION regente.checked_secret(secret text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF secret IS NULL OR regente.is_encrypted(secret) THEN
    RETURN secret;
  ELSIF secret = '' OR length(secret) > 200 OR secret ~ '[[:cntrl:]]' THEN
    RAISE check_violation USING MESSAGE = 'a key or password has 1 to 200 printable characters';
  END IF;
  RETURN regente.seal(secret);
END $$;

-- Where a secret is sent: scheme, host and port.
CREATE FUNCTION regente.origin_of(address text) RETURNS text LANGUAGE sql IMMUTABLE
RETURN lower(coalesce(substring(address FROM '^[A-Za-z0-9]+://[^/]*'), address));

CREATE FUNCTION regente.check_address_change(
  former text, address text, former_secret text, secret text, what text
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF regente.origin_of(former) <> regente.origin_of(address) AND former_secret = secret THEN
    RAISE check_violation
    USING MESSAGE = format('with a new address, give the %s again: it is sent there', what);
  END IF;
END $$;

-- What was removed is there for the history alone: an UPDATE does not find it.
CREATE FUNCTION regente.skip_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RETURN NULL;
END $$;

CREATE FUNCTION regente.check_worker() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
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

CREATE FUNCTION regente.check_proxy() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
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

CREATE FUNCTION regente.check_writer() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
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

-- Every change of the register is an event, whoever makes it. What a runner or a rotation of the
-- key changes has an event of its own.
CREATE FUNCTION regente.log_member() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  kind text := TG_ARGV[0];
  author text := regente.sql_author();
  changed jsonb;
  told jsonb := jsonb_build_object('id', NEW.id, 'by', author);
BEGIN
  IF author = '(runner)' THEN
    RETURN NULL;
  ELSIF TG_OP = 'INSERT' THEN
    INSERT INTO regente.events (event, details)
    VALUES (kind || '_added', told || jsonb_build_object('name', NEW.name));
    RETURN NULL;
  ELSIF NEW.removed_at IS NOT NULL THEN
    INSERT INTO regente.events (event, details) VALUES (kind || '_removed', told);
    RETURN NULL;
  END IF;
  SELECT jsonb_agg(n.key ORDER BY n.key) INTO changed FROM jsonb_each(to_jsonb(NEW)) AS n
  WHERE n.key IN ('name', 'url', 'api_key', 'storage_domain', 'host', 'port', 'username',
                  'password') AND n.value IS DISTINCT FROM to_jsonb(OLD) -> n.key;
  IF changed IS NOT NULL THEN
    INSERT INTO regente.events (event, details)
    VALUES (kind || '_edited', told || jsonb_build_object('changed', changed));
  END IF;
  IF NEW.active <> OLD.active THEN
    INSERT INTO regente.events (event, details)
    VALUES (kind || CASE WHEN NEW.active THEN '_activated' ELSE '_deactivated' END, told);
  END IF;
  RETURN NULL;
END $$;

CREATE TRIGGER workers_are_checked
    BEFORE INSERT OR UPDATE OF name, url, api_key, storage_domain, active, removed_at
    ON regente.workers FOR EACH ROW EXECUTE FUNCTION regente.check_worker();
CREATE TRIGGER proxies_are_checked
    BEFORE INSERT OR UPDATE OF name, host, port, username, password, active, removed_at
    ON regente.proxies FOR EACH ROW EXECUTE FUNCTION regente.check_proxy();
CREATE TRIGGER writers_are_checked
    BEFORE INSERT OR UPDATE OF name, url, api_key, active, removed_at
    ON regente.writers FOR EACH ROW EXECUTE FUNCTION regente.check_writer();
CREATE TRIGGER workers_are_logged
    AFTER INSERT OR UPDATE OF name, url, api_key, storage_domain, active, removed_at
    ON regente.workers FOR EACH ROW EXECUTE FUNCTION regente.log_member('worker');
CREATE TRIGGER proxies_are_logged
    AFTER INSERT OR UPDATE OF name, host, port, username, password, active, removed_at
    ON regente.proxies FOR EACH ROW EXECUTE FUNCTION regente.log_member('proxy');
CREATE TRIGGER writers_are_logged
    AFTER INSERT OR UPDATE OF name, url, api_key, active, removed_at
    ON regente.writers FOR EACH ROW EXECUTE FUNCTION regente.log_member('writer');
CREATE TRIGGER workers_stay_removed BEFORE UPDATE ON regente.workers FOR EACH ROW
    WHEN (OLD.removed_at IS NOT NULL) EXECUTE FUNCTION regente.skip_removed();
CREATE TRIGGER proxies_stay_removed BEFORE UPDATE ON regente.proxies FOR EACH ROW
    WHEN (OLD.removed_at IS NOT NULL) EXECUTE FUNCTION regente.skip_removed();
CREATE TRIGGER writers_stay_removed BEFORE UPDATE ON regente.writers FOR EACH ROW
    WHEN (OLD.removed_at IS NOT NULL) EXECUTE FUNCTION regente.skip_removed();
