-- Whose a host is: the credential that first spoke for it. Of those that are there already nobody has said it; whoever speaks for one
-- next is its owner.
ALTER TABLE hosts ADD COLUMN owner TEXT;
