-- The original specification's own statements (5.1, 5.4, 6, 7.3, 10.3), word for word.

-- name: reserve_proxy
-- Seleciona um proxy aleatório disponível e reserva para o worker
-- FOR UPDATE SKIP LOCKED evita deadlocks com outros workers
WITH selected_proxy AS (
  SELECT id, name, host, port, username, password
  FROM proxies
  WHERE active = true 
    AND in_use_by_worker_id IS NULL
  ORDER BY RANDOM()
  LIMIT 1
  FOR UPDATE SKIP LOCKED
)
UPDATE proxies p
SET in_use_by_worker_id = :worker_id,
    last_used_at = now()
FROM selected_proxy sp
WHERE p.id = sp.id
RETURNING p.*;

-- name: release_proxy
-- Libera o proxy usado pelo worker
UPDATE proxies
SET in_use_by_worker_id = NULL
WHERE in_use_by_worker_id = :worker_id;

-- name: count_a_failure
-- Incrementa contador de falhas e desativa se >= 3
UPDATE proxies
SET fail_count = fail_count + 1,
    active = CASE WHEN fail_count + 1 >= 3 THEN false ELSE active END
WHERE id = :proxy_id
RETURNING *;

-- name: allocate_mission
-- Seleciona a próxima missão da fila e aloca para o worker
-- FOR UPDATE SKIP LOCKED evita que dois workers peguem a mesma missão
WITH next_mission AS (
  SELECT id
  FROM missions
  WHERE status = 'queued'
  ORDER BY queued_at ASC
  LIMIT 1
  FOR UPDATE SKIP LOCKED
)
UPDATE missions m
SET status = 'running',
    checkpoint = 'extracao',
    worker_id = :worker_id,
    proxy_used = :proxy_name,
    started_at = now()
FROM next_mission nm
WHERE m.id = nm.id
RETURNING m.*;

-- name: available_workers
-- Workers que podem receber novas missões
SELECT 
  w.*,
  p.name as current_proxy_name
FROM workers w
LEFT JOIN proxies p ON p.in_use_by_worker_id = w.id
WHERE w.active = true
  AND w.status IN ('idle', 'ready')
  AND w.current_mission_id IS NULL;

-- name: pending_in_writer
-- Missões aguardando ou em processamento no writer
SELECT *
FROM missions
WHERE status = 'running'
  AND checkpoint = 'armazenamento';

-- name: should_it_end
-- Verifica se ainda há trabalho pendente
SELECT 
  COUNT(*) FILTER (WHERE status = 'queued') as queued_count,
  COUNT(*) FILTER (WHERE status = 'running') as running_count
FROM missions;
-- Se ambos = 0, pode encerrar

-- name: mission_with_details
-- Busca missão com informações de worker e proxy para auditoria
SELECT 
  m.*,
  w.name as worker_name,
  w.url as worker_url,
  m.proxy_used as proxy_name
FROM missions m
LEFT JOIN workers w ON m.worker_id = w.id
WHERE m.id = :mission_id;

-- name: timeline
SELECT 
  ml.timestamp,
  ml.event,
  ml.details
FROM mission_logs ml
WHERE ml.mission_id = :mission_id
ORDER BY ml.timestamp ASC;

-- name: failed_in_24_hours
SELECT 
  m.id,
  m.status,
  m.error_code,
  m.error_message,
  m.retry_count,
  ml.timestamp as failed_at,
  ml.details
FROM missions m
JOIN mission_logs ml ON ml.mission_id = m.id
WHERE ml.event = 'mission_failed'
  AND ml.timestamp > now() - interval '24 hours'
ORDER BY ml.timestamp DESC;

-- name: performance_per_worker
SELECT 
  w.name as worker_name,
  COUNT(*) FILTER (WHERE ml.event = 'scrape_completed') as completed_count,
  COUNT(*) FILTER (WHERE ml.event = 'scrape_failed') as failed_count,
  AVG((ml.details->>'duration_ms')::int) 
    FILTER (WHERE ml.event = 'scrape_completed') as avg_duration_ms
FROM workers w
JOIN missions m ON m.worker_id = w.id
JOIN mission_logs ml ON ml.mission_id = m.id
WHERE ml.event IN ('scrape_completed', 'scrape_failed')
  AND ml.timestamp > now() - interval '7 days'
GROUP BY w.id, w.name;

-- name: problem_proxies
SELECT 
  p.name,
  p.host,
  p.fail_count,
  p.active,
  COUNT(*) FILTER (WHERE ml.event = 'session_failed') as session_failures,
  COUNT(*) FILTER (WHERE ml.event = 'proxy_rotated') as rotations
FROM proxies p
LEFT JOIN mission_logs ml ON ml.details->>'proxy_name' = p.name
  AND ml.event IN ('session_failed', 'proxy_rotated')
  AND ml.timestamp > now() - interval '7 days'
GROUP BY p.id, p.name, p.host, p.fail_count, p.active
ORDER BY p.fail_count DESC;

-- name: blame_current_proxy
UPDATE proxies
SET fail_count = fail_count + 1,
    active = CASE WHEN fail_count + 1 >= 3 THEN false ELSE active END
WHERE in_use_by_worker_id = :worker_id;

-- name: release_current_proxy
UPDATE proxies
SET in_use_by_worker_id = NULL
WHERE in_use_by_worker_id = :worker_id;

-- name: log_rotation
INSERT INTO mission_logs (mission_id, event, details)
VALUES (:mission_id, 'proxy_rotated', 
        '{"old_proxy": "...", "reason": "ERROR101"}');

-- name: queue
UPDATE missions
SET status = 'queued',
    checkpoint = 'atribuido',
    queued_at = now()
WHERE id = :mission_id;

-- name: log_queued
INSERT INTO mission_logs (mission_id, event, details)
VALUES (:mission_id, 'mission_queued',
        '{"queued_by": "user"}');

-- name: orphans
SELECT m.*, w.status as worker_status
FROM missions m
LEFT JOIN workers w ON m.worker_id = w.id
WHERE m.status = 'running'

-- name: free_orphaned_proxies
UPDATE proxies
SET in_use_by_worker_id = NULL
WHERE in_use_by_worker_id IN (
  SELECT id FROM workers WHERE status = 'idle'
)
