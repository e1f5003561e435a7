-- Members that are written in SQL have the addresses that the register takes, by the rule of
-- fleet/addresses.py and address_guard.py: the same cases of tests/fleet/addresses.py go through
-- both.

-- The IPv4 address in four bytes of an IPv6 one.
CREATE FUNCTION regente.ipv4_in(address inet, place integer) RETURNS inet LANGUAGE sql IMMUTABLE
RETURN '0.0.0.0'::inet
  + ('x' || encode(substring(inet_send(address) FROM place + 5 FOR 4), 'hex'))::bit(32)::bigint;

-- Link-local and multicast addresses, those of clouds' metadata, and 0.0.0.0; also as the IPv4
-- address that an IPv6 one embeds: mapped, translated, compatible, 6to4, Teredo, ISATAP.
CREATE FUNCTION regente.is_never_called(address inet) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
  refused CONSTANT inet[] := '{169.254.0.0/16,224.0.0.0/4,0.0.0.0/32,100.100.100.200/32,
                               fe80::/10,ff00::/8,::/128,fd00:ec2::254/128}';
  found inet[] := ARRAY[address];
BEGIN
  IF address <<= ANY ('{::/96,::ffff:0:0/96,::ffff:0:0:0/96,64:ff9b::/96,64:ff9b:1::/48}'::inet[])
     OR family(address) = 6
        AND substring(inet_send(address) FROM 13 FOR 4) IN ('\x00005efe', '\x02005efe') THEN
    found := found || regente.ipv4_in(address, 12);
  END IF;
  IF address <<= '2002::/16' THEN
    found := found || regente.ipv4_in(address, 2);
  ELSIF address <<= '2001::/32' THEN  -- the server, and the client, whose bits are inverted
    found := found || regente.ipv4_in(address, 4) || regente.ipv4_in(~ address, 12);
  END IF;
  RETURN EXISTS (SELECT FROM unnest(found) AS one WHERE one <<= ANY (refused));
END $$;

-- A part of an IPv4 address, as the system reads it: decimal, octal (0251) or hexadecimal (0xa9).
CREATE FUNCTION regente.number_of(part text) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  base integer := CASE WHEN part ~ '^0x[0-9a-f]+$' THEN 16 WHEN part ~ '^0[0-7]*$' THEN 8
                       WHEN part ~ '^[1-9][0-9]*$' THEN 10 END;
  digit text;
  result numeric := 0;
BEGIN
  IF base IS NULL THEN
    RETURN NULL;
  END IF;
  FOREACH digit IN ARRAY string_to_array(regexp_replace(part, '^0x', ''), NULL) LOOP
    result := result * base + strpos('0123456789abcdef', digit) - 1;
  END LOOP;
  RETURN result;
END $$;

-- The address that a host is, as the system reads it: `2852039166`, `0xa9.254.43518`, `[::1]`; NULL
-- if it is a name. It fails with what in brackets is no IPv6 address.
CREATE FUNCTION regente.address_of(host text) RETURNS inet LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  ascii text := regexp_replace(lower(replace(host, '。', '.')), '[^\u0001-\u007f]', '', 'g');
  parts text[] := string_to_array(regexp_replace(ascii, '\.$', ''), '.');
  last integer := cardinality(parts);
  number numeric;
  bits integer;
  place integer;
  total numeric := 0;
BEGIN
  IF host ~ '^\[' THEN
    RETURN btrim(host, '[]')::inet;
  ELSIF last NOT BETWEEN 1 AND 4 THEN
    RETURN NULL;
  END IF;
  FOR i IN 1..last LOOP
    number := regente.number_of(parts[i]);
    bits := CASE WHEN i < last THEN 8 ELSE 40 - 8 * last END;
    place := CASE WHEN i < last THEN 32 - 8 * i ELSE 0 END;
    IF number IS NULL OR number >= 1::bigint << bits THEN
      RETURN NULL;
    END IF;
    total := total + number * (1::bigint << place);
  END LOOP;
  RETURN '0.0.0.0'::inet + total::bigint;
END $$;

-- Why nothing is sent to a host; NULL if it is one for a member.
CREATE FUNCTION regente.host_refusal(host text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT
AS $$
DECLARE
  pattern CONSTANT text := '^(?:\[[0-9A-Fa-f:]*:[0-9A-Fa-f:]*(?:(?:[0-9]+\.){3}[0-9]+)?\]'
    '|(?:[-.0-9A-Za-z_]|[^\u0001-\u00ad\u1680\u2000-\u206f\u3000\ufeff])+)$';
  -- As resolvers read it: digits of other scripts are digits.
  plain text := CASE WHEN host ~ '^[\u0001-\u007f]*$' THEN host ELSE normalize(host, NFKC) END;
BEGIN
  IF host !~ pattern OR plain !~ pattern THEN
    RETURN format('%L is not a host', left(host, 100));
  ELSIF regente.is_never_called(regente.address_of(plain)) THEN
    RETURN host(regente.address_of(plain)) || ' is not a public address; nothing is read from it';
  END IF;
  RETURN NULL;
EXCEPTION WHEN invalid_text_representation THEN
  RETURN format('%L is not a host', left(host, 100));
END $$;

CREATE FUNCTION regente.check_host(host text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF regente.host_refusal(host) IS NOT NULL THEN
    RAISE check_violation USING MESSAGE = regente.host_refusal(host);
  END IF;
END $$;

CREATE OR REPLACE FUNCTION regente.checked_url(url text) RETURNS text LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
  part text[] := regexp_match(
    url,
    '^[Hh][Tt][Tt][Pp][Ss]?://(\[[^]\s/?#@]*\]|[^][\s/?#@:]+)(?::([0-9]{1,5}))?(?:/[^\s?#]*)?$');
  unseen CONSTANT text := '[\u0001-\u0020\u007f-\u00a0\u00ad\u1680\u2000-\u200f\u2028-\u202f'
    '\u205f-\u206f\u3000\ufeff]';
BEGIN
  IF url ~ '^[^/?#]*//[^/?#]*@' THEN
    RAISE check_violation
    USING MESSAGE = 'an address carries no user name or password: use the api_key';
  ELSIF url IS NOT NULL AND part IS NULL OR length(url) > 500 OR url ~ unseen
        OR part[2]::integer NOT BETWEEN 1 AND 65535 THEN
    RAISE check_violation
    USING MESSAGE = format('%L is not an address like https://worker.example.com', left(url, 200));
  END IF;
  PERFORM regente.check_host(part[1]);
  RETURN rtrim(url, '/');
END $$;

CREATE FUNCTION regente.check_proxy_host(host text) RETURNS void LANGUAGE plpgsql IMMUTABLE STRICT
AS $$
DECLARE
  part text[] := regexp_match(
    host, '^(?:(?:https?|socks5h?)://)?(\[[^]\s/?#@]*\]|[^][\s/?#@:]+)(?::([0-9]{1,5}))?$');
BEGIN
  IF part IS NULL OR part[2]::integer NOT BETWEEN 1 AND 65535 THEN
    RAISE check_violation USING MESSAGE = format(
      '%L is not a host, for example proxy.example.com or socks5://10.0.0.7', host);
  END IF;
  PERFORM regente.check_host(part[1]);
END $$;

-- A row's address is checked when it is new, so that a member from before can still be changed,
-- deactivated and removed.

CREATE OR REPLACE FUNCTION regente.check_worker() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.removed_at IS NOT NULL THEN
    NEW.api_key := '';
    RETURN NEW;
  END IF;
  NEW.name := regente.checked_name(NEW.name);
  IF TG_OP = 'INSERT' OR NEW.url <> OLD.url THEN
    NEW.url := regente.checked_url(NEW.url);
  END IF;
  NEW.storage_domain := rtrim(NEW.storage_domain, '/');
  IF TG_OP = 'INSERT' OR NEW.storage_domain IS DISTINCT FROM OLD.storage_domain THEN
    PERFORM regente.checked_url(CASE WHEN NEW.storage_domain ~ '://' THEN NEW.storage_domain
                                     ELSE 'https://' || NEW.storage_domain END);
  END IF;
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
  IF TG_OP = 'INSERT' OR NEW.host <> OLD.host THEN
    PERFORM regente.check_proxy_host(NEW.host);
  END IF;
  IF NEW.port IS NOT NULL AND NEW.host ~ ':[0-9]{1,5}$' THEN
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
  IF TG_OP = 'INSERT' OR NEW.url <> OLD.url THEN
    NEW.url := regente.checked_url(NEW.url);
  END IF;
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
