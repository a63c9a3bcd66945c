-- Triggers of the audit chain: each write to dalston_operator_action is hashed into dalston_audit_entry by the same
-- transaction, whatever code writes. Run by the initial migration.

CREATE FUNCTION dalston_audit_append(action_number bigint, kind text, facts jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    head record;
    link_id bigint;
    previous text;
    written text := facts::text;
BEGIN
    -- One writer at a time, until its transaction ends: two that read the same head would fork the chain.
    PERFORM pg_advisory_xact_lock(7304871, 1);
    SELECT id, hash INTO head FROM dalston_audit_entry ORDER BY id DESC LIMIT 1;
    link_id := coalesce(head.id, 0) + 1;
    previous := coalesce(head.hash, repeat('0', 64));
    INSERT INTO dalston_audit_entry (id, action_id, fact, content, previous_hash, hash)
    VALUES (
        link_id, action_number, kind, written, previous,
        encode(sha256(convert_to(previous || E'\n' || link_id || E'\n' || written, 'UTF8')), 'hex')
    );
END $$;

CREATE FUNCTION dalston_audit_begun(done dalston_operator_action) RETURNS void LANGUAGE sql AS $$
    -- Not the foreign keys: they go when a user or token is deleted; the actor's name stays.
    SELECT dalston_audit_append(done.id, 'begun', jsonb_build_object(
        'action_id', done.id, 'at', to_char(done.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'actor', done.actor,
        'action', done.action, 'target', done.target, 'reason', done.reason, 'before', done.before))
$$;

CREATE FUNCTION dalston_audit_finished(done dalston_operator_action) RETURNS void LANGUAGE sql AS $$
    SELECT dalston_audit_append(done.id, 'finished', jsonb_build_object(
        'action_id', done.id, 'at', to_char(done.finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'after', done.after))
$$;

CREATE FUNCTION dalston_audit_chain() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM dalston_audit_begun(NEW);
        IF NEW.finished_at IS NOT NULL THEN
            PERFORM dalston_audit_finished(NEW);
        END IF;
    ELSIF OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL THEN
        PERFORM dalston_audit_finished(NEW);
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION dalston_audit_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'dalston_operator_action' THEN
        IF (NEW.id, NEW.at, NEW.actor, NEW.action, NEW.target, NEW.reason, NEW.before)
            IS NOT DISTINCT FROM (OLD.id, OLD.at, OLD.actor, OLD.action, OLD.target, OLD.reason, OLD.before)
            AND (NEW.user_id IS NULL OR NEW.user_id IS NOT DISTINCT FROM OLD.user_id)
            AND (NEW.token_id IS NULL OR NEW.token_id IS NOT DISTINCT FROM OLD.token_id)
            AND ((NEW.after, NEW.finished_at) IS NOT DISTINCT FROM (OLD.after, OLD.finished_at)
                OR (OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL))
        THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'the audit trail is kept as it was written: no % of %', lower(TG_OP), TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER audit_chain AFTER INSERT OR UPDATE ON dalston_operator_action
    FOR EACH ROW EXECUTE FUNCTION dalston_audit_chain();
CREATE TRIGGER audit_keep BEFORE UPDATE OR DELETE ON dalston_operator_action
    FOR EACH ROW EXECUTE FUNCTION dalston_audit_keep();
CREATE TRIGGER audit_keep BEFORE UPDATE OR DELETE ON dalston_audit_entry
    FOR EACH ROW EXECUTE FUNCTION dalston_audit_keep();
-- TRUNCATE fires no trigger of rows.
CREATE TRIGGER audit_keep_all BEFORE TRUNCATE ON dalston_operator_action
    FOR EACH STATEMENT EXECUTE FUNCTION dalston_audit_keep();
CREATE TRIGGER audit_keep_all BEFORE TRUNCATE ON dalston_audit_entry
    FOR EACH STATEMENT EXECUTE FUNCTION dalston_audit_keep();
