#!/usr/bin/env python3
"""Asks nerf-engine export for what it must refuse: boxes, paths, cameras, models, a full disk.

usage: hostile_exports.py MODEL

Prints each case with its exit code and words. Exits 1 where a code is not the expected one, the
words do not name what is wrong, or anything was written. The full disk is a tmpfs, which needs
root; without, that case is named as skipped. Run it with nerf-engine in PATH.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

USAGE, NOT_FOUND, EXHAUSTED, BAD_DATA = 2, 5, 8, 9

BOXES = [(text, USAGE, '--crop') for text in (
    'nan,0,0,1,1,1', 'inf,0,0,1,1,1', '0,0,0,inf,1,1', '0,0,0,0,1,1', '0,0,0,1,-1,1', '0,0,0,1,1',
    '0,0,0,1,1,1,1', '1e300,0,0,1,1,1', '1e10,0,0,1,1,1', '1e8,0,0,1e-9,1,1', 'a,b,c,d,e,f',
    '0;0;0;1;1;1', ',,,,,', '0,0,0,1,1,1e-310', '0,0,0,1,1,1;ls', '0x,0,0,1,1,1', '$(id),0,0,1,1,1',
    '0,0,0,1e20,1,1', '0' * 100_000)] + [
        ('900,900,900,1,1,1', BAD_DATA, 'no surface'),
        ('0,0,0,1e-7,1e-7,1e-7', BAD_DATA, 'no surface')]
PATHS = [('none/mesh.ply', NOT_FOUND, 'none/mesh.ply'), ('file/mesh.ply', NOT_FOUND, 'file'),
         ('/proc/mesh.ply', NOT_FOUND, '/proc/mesh.ply'), ('/dev/null/x.ply', NOT_FOUND, 'null'),
         ('loop/mesh.ply', NOT_FOUND, 'loop'), ('a' * 300 + '.ply', NOT_FOUND, 'aaa'),
         ('', USAGE, '--out'), ('../' * 200 + 'none/x/mesh.ply', NOT_FOUND, 'mesh.ply'),
         ('mesh.obj', USAGE, '--format'), ('mesh', USAGE, '--format'), ('.ply', USAGE, '--format')]
FLAGS = [('--resolution=7', USAGE, '--resolution'), ('--resolution=2000', USAGE, '--resolution'),
         ('--triangles=0', USAGE, '--triangles'), ('--triangles=1', BAD_DATA, '--triangles'),
         ('--triangles=-1', USAGE, '--triangles'),
         ('--density=nan', USAGE, '--density'), ('--density=-1', USAGE, '--density'),
         ('--density=1e30', BAD_DATA, 'no surface'), ('--frame=../mars', USAGE, '--frame'),
         ('--time=2', USAGE, '--time'), ('--texture=1024', USAGE, '--texture'),
         ('--threads=-3', USAGE, '--threads'), ('--format=../x', USAGE, '--format')]
MODELS = [('none.safetensors', NOT_FOUND, 'none'), ('/dev/null', BAD_DATA, ''),
          ('/', BAD_DATA, 'folder'), ('cut.safetensors', BAD_DATA, ''),
          ('flipped.safetensors', BAD_DATA, '')]


POSE = '[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]'
CAMERAS = [(text, BAD_DATA, 'cameras.json') for text in (
    '', '{', '[]', '{"frames": 5}', '{"frames": []}', '{"frames": [{}]}', '[' * 100_000,
    '{"frames": [{"w": 1e9, "h": 1e9, "fl_x": 1, "transform_matrix": %s}]}' % POSE,
    '{"frames": [{"w": 9, "h": 9, "fl_x": -1, "transform_matrix": %s}]}' % POSE,
    '{"frames": [{"w": 9, "h": 9, "fl_x": 9, "transform_matrix": [[1e999]]}]}',
    '{"keyframes": []}', '{"keyframes": [7]}', '{"keyframes": [{"fov": 50}]}',
    '{"keyframes": [{"transform_matrix": [[1e999]]}]}',
    '{"keyframes": [{"transform_matrix": %s, "fov": 0}]}' % POSE,
    '{"keyframes": [{"transform_matrix": %s}], "seconds": -1}' % POSE,
    '{"camera_path": []}', '{"camera_path": [{"camera_to_world": [1, 2]}]}',
    '{"path": [{"R": [0, 0, 0, 0], "T": [0, 0, 0], "fov": 50}]}', '\0\1\2')]


def files_in(folder):
    return {path.relative_to(folder): path.lstat().st_size for path in folder.rglob('*')}


class Cases:
    def __init__(self, model, folder):
        self.model, self.folder, self.n, self.wrong = model, folder, 0, 0

    def ask(self, label, expected, words, *arguments, where=None):
        where = where or self.folder
        before = files_in(where)
        done = subprocess.run(['nerf-engine', 'export', *arguments], cwd=self.folder,
                              capture_output=True, text=True)
        said = (done.stderr.strip().splitlines() or [''])[0]
        is_good = (done.returncode == expected and words in done.stderr and len(said) > 0 and
                   files_in(where) == before and len(done.stderr) < 2000)
        self.n += 1
        self.wrong += not is_good
        verdict = 'good ' if is_good else 'WRONG'
        print(f'{verdict} {done.returncode:3} {label[:40]!r:44} {said[:110]}', flush=True)

    def full_disk(self):
        disk = self.folder / 'disk'
        disk.mkdir()
        mounted = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=300k', 'tmpfs', disk],
                                 capture_output=True).returncode == 0
        if not mounted:
            print('skipped: a full disk (no tmpfs can be mounted here)')
            return
        try:
            self.ask('full disk, views', EXHAUSTED, 'set', self.model, '--out', str(disk / 'set'),
                     '--format', 'views', where=disk)
            for name in ('mesh.ply', 'mesh.glb', 'points.ply', 'splats.ply', 'volume.vdb',
                         'volume.nvdb', 'views.zip'):
                more = ['--format', name.split('.')[0]] if name[0] in 'sp' else []
                for old in ('', 'old'):
                    (disk / name).write_text(old) if old else (disk / name).unlink(missing_ok=True)
                    self.ask(f'full disk, {name} {old}', EXHAUSTED, name, self.model, '--out',
                             str(disk / name), *more, where=disk)
        finally:
            subprocess.run(['umount', disk], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('model')
    model = os.path.abspath(parser.parse_args().model)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / 'file').write_text('x')
        (folder / 'loop').symlink_to('loop')
        content = pathlib.Path(model).read_bytes()
        (folder / 'cut.safetensors').write_bytes(content[:len(content) // 2])
        flipped = bytearray(content)
        flipped[-1000] ^= 1
        (folder / 'flipped.safetensors').write_bytes(flipped)
        cases = Cases(model, folder)
        for box, code, words in BOXES:
            cases.ask(box, code, words, model, '--out', 'mesh.ply', f'--crop={box}')
        for path, code, words in PATHS:
            cases.ask(path, code, words, model, '--out', path)
        for flag, code, words in FLAGS:
            cases.ask(flag, code, words, model, '--out', 'mesh.ply', flag)
        for file, code, words in MODELS:
            cases.ask(file, code, words, file, '--out', 'mesh.ply')
        for text, code, words in CAMERAS:
            (folder / 'cameras.json').write_text(text)
            for form in ('views', 'nerfstudio-path', 'ngp-path'):
                cases.ask(f'{form} {text}', code, words, model, '--out', 'x', '--format', form,
                          '--camera', 'cameras.json')
            cases.ask(f'zip {text}', code, words, model, '--out', 'x.zip', '--camera',
                      'cameras.json')
        for out in ('none/set.zip', 'file/set.zip', '/proc/set.zip', 'a' * 300 + '.zip'):
            cases.ask(f'views {out}', NOT_FOUND, out[-20:], model, '--out', out)
        for form in ('views', 'cameras', 'ply', 'nvdb'):
            cases.ask(f'{form} --exported-cameras', USAGE, '--exported-cameras', model, '--out',
                      'x', '--format', form, '--exported-cameras')
        for out in ('file', '.', '/proc/set', 'none/set', 'loop', 'a' * 300):
            cases.ask(f'views {out}', BAD_DATA if out in ('file', '.') else NOT_FOUND, '', model,
                      '--format', 'views', '--out', out)
        shutil.copy(model, folder / 'own.ply')
        cases.ask('over the model itself', BAD_DATA, 'model itself', 'own.ply', '--out', 'own.ply')
        shutil.copy(model, folder / 'own.zip')
        cases.ask('over the model itself', BAD_DATA, 'model itself', 'own.zip', '--out', 'own.zip')
        cases.full_disk()
    print(f'{cases.n} cases, {cases.wrong} wrong')
    sys.exit(0 if cases.wrong == 0 else 1)


if __name__ == '__main__':
    main()
